"""All of chapter 09: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
