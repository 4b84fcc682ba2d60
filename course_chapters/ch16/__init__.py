"""All of chapter 16: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
