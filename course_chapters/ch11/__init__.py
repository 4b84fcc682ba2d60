"""All of chapter 11: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
