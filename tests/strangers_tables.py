"""Tables as they are written in Germany, in the United States, and by R."""

CITIES = ("Köln", "Bonn", "Düren")
GERMAN = "Stadt;Einwohner;Miete;Anteil;Stand;Klasse\n" + "".join(
    f"{CITIES[row % 3]};{'k.A.' if row == 7 else f'{850 + 97 * row:,}'.replace(',', '.')};"
    f"{row},50"
    f";{row},5 %;{1 + row % 28:02}.{1 + row % 12:02}.2023;{('A', 'B')[row % 2]}\n"
    for row in range(60)
)
AMERICAN = "sold,price,share,income,owner,kind\n" + "".join(
    f'{1 + row % 12}/{1 + row % 28}/2023,${row}.50,{row}%,"{1000 + 97 * row:,}.25",'
    f"{('TRUE', 'False', 'true', 'FALSE')[row % 4]},{'N/A' if row == 9 else ('x', 'y')[row % 2]}\n"
    for row in range(60)
)
OF_R = '"area" "town" "kept" "kind"\n' + "".join(
    f'"{row + 1}" {"NA" if row == 5 else row / 4} "{CITIES[row % 3]}" {("TRUE", "FALSE")[row % 2]} '
    f'"{("a", "b")[row % 2]}"\n'
    for row in range(60)
)
