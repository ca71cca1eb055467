"""What every command shares: signals, streams, exit codes, the file it writes."""
