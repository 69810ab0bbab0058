"""``python -m privagg``: the same as the command ``privagg``."""

from privagg.cli.main import main

if __name__ == "__main__":
    main()
