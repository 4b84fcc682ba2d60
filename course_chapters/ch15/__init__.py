"""All of chapter 15: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
