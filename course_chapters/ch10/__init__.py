"""All of chapter 10: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
