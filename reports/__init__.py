"""Read the rows that `benchmarks` wrote: tables, and a verdict on a run against an earlier one.

Nothing here measures, and nothing here is installed: `python -m reports --help`, in a checkout.
Directories are reports that were kept, with the rows they were made of.
"""
