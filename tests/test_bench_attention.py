"""`course bench attention`: ours and torch's on the same processes, equal to full attention."""

from bench import attention


def test_ours_and_torchs_equal_full_attention_and_bytes_are_the_formulas(capsys, monkeypatch):
    rows = attention.compare(64, 2, repeats=0)
    assert [row["way"] for row in rows[1:]] == ["ring", "gather", "ulysses", *attention.TORCH]
    assert all(row["seconds"] > 0 for row in rows) and all(row["apart"] < 1 for row in rows[1:])
    assert all(row["bytes"] == row["predicted"] for row in rows if "bytes" in row)
    monkeypatch.setattr(attention, "compare", lambda *_: rows)
    assert attention.main(["--lengths", "64"]) == 0 and "torch, ring" in capsys.readouterr().out
