"""Codes of findings, as options give them."""

from __future__ import annotations

import typer

from roboreel.check.ledger import select_codes


def parse_codes_option(text: str, option: str) -> list[str]:
    """Return the codes of rules, or beginnings of codes, that were asked for.

    Raises:
        typer.BadParameter: No rule has such a code.
    """
    codes = [code for code in text.replace(" ", ",").split(",") if code]
    try:
        select_codes(codes)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=f"'{option}'") from error
    return codes
