"""`python -m fairtrial` is the command `fairtrial`."""

from fairtrial.cli import main

if __name__ == "__main__":
    main()
