"""`strategy=fsdp`: processes that hold parts of a model, with the bits of one process."""
