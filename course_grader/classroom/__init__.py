"""A class: its folder, roster, releases, collected submissions, extensions, exports and reports."""
