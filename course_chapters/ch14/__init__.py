"""All of chapter 14: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
