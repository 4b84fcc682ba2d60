"""What each chapter's widgets and pictures say, beyond what holds for all of them."""
