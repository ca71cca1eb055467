"""Names of classes that tools, file systems or formats refuse, merge or misread."""

# of tables of hospitals and incomes; of languages, genres, units, paths, scripts
CLASSES = """<30 >30 NO <50K >50K <=50K >=50K
    C C+ C++ C# F# .NET R&B rock'n'roll a% a# a/ a//b //
    /a . .. ... a/. a/.. ./a ../a a.b a..b n/a N/A ? ?? ! @home #1 $5 1,5 1;5 1:5 1=1 =1+1 -1 +1
    ~ ^ | (a) [a] {a} 'a' "a" `a` \\ a\\b C:\\x http://a/b?c=d
    * ** 0 1 1.0 01 µm um cm² cm2 °C é e ß ss Ä ä
    日本 中国 Москва العربية עברית 😀 👍🏽 ½ ∞ İ ı ﬁ fi""".split() + [
    "a b", "a  b", " a", "a ", "", " ", "a\tb", "a\nb", "a\rb", "a\r\nb", "a\0b", "a\u2028b",
    "\udce9", "\udce8", "x" * 300, "x" * 299 + "y", "é" * 300, "é" * 299 + "e", "loss", "epoch",
    "split", "updates", "over", "nan", "None", "true",
]  # fmt: skip
