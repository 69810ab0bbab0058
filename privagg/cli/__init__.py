"""Command line: click commands that call the library; nothing is computed here."""
