"""Arrays of any library: namespaces, validation, fast loops, threads and memory."""
