"""What each chapter's exercises promise beyond the contract that all of them keep."""
