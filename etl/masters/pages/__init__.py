"""Master pages: one master table as immutable, sorted, memory-mapped Arrow files that every worker shares.

    source ─► publish, refresh ─►  root/                       ─► open(version) ─► lookup, pages, page by key
                                     versions/00000007.json    one manifest per version; its rename commits it
                                     runs/base-…-ab12.arrows   rows sorted by key, an Arrow IPC stream
                                     runs/base-…-ab12.index    fence keys and checksum of every page
                                     runs/overlay-…            rows changed since, deletions as tombstones
                                     pins/batch%2012.json      versions somebody still needs

A small LSM tree: the newest run that knows a key decides about it. Nothing is ever changed in place, so a
reader needs no lock against writers, and a crash leaves at worst files that no manifest names.

    codes     one sortable code per key          shape     columns and key, outside and in the files
    layout    segments, pages, checksums         writer    how a run is written
    manifest  what a version consists of         run       a mapped run, verified page by page
    store     versions, and their collection     pins      who still needs which version
    view      the three ports at one version     merge     newest wins
    publish   new versions from a source         source    what a source has to offer
    compact   overlays folded into a base        sorting   more rows than memory holds
    files     the steps durability rests on      errors    what can be wrong, and the remedy
"""
