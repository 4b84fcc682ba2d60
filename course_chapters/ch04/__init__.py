"""All of chapter 04: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
