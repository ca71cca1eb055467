"""Tables as they are written in Germany and in the United States."""

CITIES = ("Köln", "Bonn", "Düren")
GERMAN = "Stadt;Einwohner;Miete;Stand;Klasse\n" + "".join(
    f"{CITIES[row % 3]};{'k.A.' if row == 7 else f'{850 + 97 * row:,}'.replace(',', '.')};"
    f"{row},50;{1 + row % 28:02}.{1 + row % 12:02}.2023;{('A', 'B')[row % 2]}\n"
    for row in range(60)
)
GERMAN_OPTIONS = {
    "encoding": "cp1252", "decimal": ",", "thousands": ".", "missing_values": ["k.A."],
    "missing": "median", "date_format": "%d.%m.%Y",
}  # fmt: skip
AMERICAN = "sold,income,owner,kind\n" + "".join(
    f'{1 + row % 12}/{1 + row % 28}/2023,"{1000 + 97 * row:,}.25",'
    f"{('TRUE', 'False', 'true', 'FALSE')[row % 4]},{'N/A' if row == 9 else ('x', 'y')[row % 2]}\n"
    for row in range(60)
)
AMERICAN_OPTIONS = {"thousands": ",", "missing": "drop", "date_format": "%m/%d/%Y"}
