"""All of chapter 20: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
