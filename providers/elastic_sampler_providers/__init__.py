"""The providers that come with elastic-sampler: one launcher or framework per file.

They are plug-ins like anybody's, registered as entry points, and use the public API only.
"""
