"""All of chapter 02: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
