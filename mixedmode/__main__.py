"""`python -m mixedmode` is the command line."""

from mixedmode.cli import main

if __name__ == "__main__":
    main()
