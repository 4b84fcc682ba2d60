"""What the course is held to, measured: each module has `main(arguments) -> exit code` and is run by
`./course bench`."""
