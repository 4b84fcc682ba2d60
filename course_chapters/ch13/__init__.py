"""All of chapter 13: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
