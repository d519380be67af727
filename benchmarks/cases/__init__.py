"""What roboreel does in each benchmark; peers do the same in ``benchmarks.peers``."""
