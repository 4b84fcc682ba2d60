"""All of chapter 01: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
