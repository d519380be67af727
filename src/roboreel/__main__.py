"""The command line as ``python -m roboreel``."""

from roboreel.cli import main

main()
