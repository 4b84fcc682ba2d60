"""All of chapter 03: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
