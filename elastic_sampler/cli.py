"""The command `elastic-sampler`."""


def main() -> int:
    """Run it."""
    return 0
