"""Master pages: one master table as immutable, sorted, memory-mapped Arrow files that every worker shares.

    source ─► publish, refresh ─►  root/                       ─► open(version) ─► lookup, pages, page by key
                                     versions/00000007.json    one manifest per version; its rename commits it
                                     runs/base-…-ab12.arrows   rows sorted by key, an Arrow IPC stream
                                     runs/base-…-ab12.index    fence keys and checksum of every page
                                     runs/overlay-…            rows changed since, deletions as tombstones
                                     pins/batch%2012.json      versions somebody still needs

A small LSM tree: the newest run that knows a key decides about it. Nothing is ever changed in place, so a
reader needs no lock against writers, and a crash leaves at worst files that no manifest names.

    store     versions, and their collection     manifest   what a version consists of
    view      the reader of one version          merge      newest wins
    publish   new versions from a source         compact    overlays folded into a base
    runs/     the files themselves               parallel   waits for pages on disk, overlapped
    files     the steps durability rests on      errors     what can be wrong, and the remedy
"""
