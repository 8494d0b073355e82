"""Read the rows that `benchmarks` wrote: reports of a run and a verdict on it.

    read, convert, check, derive      files -> Run: rows with every column of `columns`
    report, tables/, plots/           Run -> Page: a section per question
    compare, changes, verdict         two Runs -> verdicts -> Page
    markdown, html, write             Page -> files

Nothing here measures, and nothing here is installed: `python -m reports --help`, in a checkout.
Directories are reports that were kept, with the rows they were made of.
"""
