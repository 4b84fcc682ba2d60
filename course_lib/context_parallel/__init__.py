"""One sequence on several ranks: softmax attention computed in parts, by a ring, a gather or an exchange of heads."""
