"""Many runs side by side: found, read, chosen, compared, removed; torch is not imported."""
