"""`python -m elastic_sampler` is the command `elastic-sampler`."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
