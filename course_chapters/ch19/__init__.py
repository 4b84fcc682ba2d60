"""All of chapter 19: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
