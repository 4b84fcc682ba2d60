"""All of chapter 18: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
