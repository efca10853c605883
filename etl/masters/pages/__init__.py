"""Master pages: one master table as immutable, sorted, memory-mapped Arrow files that every worker shares.

    source ─► publish, refresh ─►  root/                       ─► open(version) ─► lookup, pages, page by key
                                     versions/00000007.json    one manifest per version; its rename commits it
                                     runs/base-…-ab12.arrows   rows sorted by key, an Arrow IPC stream
                                     runs/base-…-ab12.index    fence keys and checksum of every page
                                     runs/overlay-…            rows changed since the base, deletions as tombstones
                                     pins/batch%2012.json      versions in use by a batch

A small LSM tree: the newest run that has a key wins. Nothing is ever changed in place, so a
reader needs no lock against writers, and a crash leaves at worst files that no manifest names.

    store     versions, and their collection     manifest   the runs of a version
    view      the reader of one version          merge      newest wins
    publish   new versions from a source         compact    overlays folded into a base
    runs/     the files themselves               parallel   overlapped page faults
    files     durable file operations            errors     errors with their remedies
"""
