"""Words that master data is made of. Nations carry their region and telephone code."""

from __future__ import annotations


def _listed(words: str) -> list[str]:
    return words.split()


GIVEN = _listed(
    "Ada Amir Anouk Bao Beatriz Bram Chiara Dalia Davit Elif Emeka Esther Fatou Finn Greta Hana Hugo "
    "Ines Ivo Jamila Jonas Kaito Keren Lars Leila Lucia Malik Maren Mateo Mei Mira Nadia Nils Noor "
    "Odile Omar Petra Priya Quentin Rafa Renata Rohan Saskia Selma Soren Tariq Thea Tomas Uma Valeria "
    "Viktor Wanjiru Xenia Yara Yusuf Zeno Zora"
)

FAMILY = _listed(
    "Abara Almeida Andersen Asante Bakker Banerjee Bellini Castillo Chen Dahl Demir Diallo Ebner "
    "Eriksen Farouk Fischer Fontaine Gallo Haddad Hoang Ibarra Ito Jansen Kaplan Karimi Kovac Kumar "
    "Laurent Lindqvist Marek Mbeki Moreau Nakamura Navarro Novak Okafor Olsen Pereira Petrov Quiroga "
    "Rahman Ricci Rossi Sato Silva Sorensen Tanaka Tessema Tran Ueda Varga Vega Weber Yilmaz Zhou Zulu"
)

STREETS = _listed(
    "Alder Amber Anchor Bakery Birch Bridge Canal Cedar Chapel Copper Dairy Elm Ferry Foundry Garden "
    "Granite Harbour Hazel Heron Juniper Lantern Lime Maple Market Meadow Mill Moss Orchard Poplar "
    "Quarry River Rowan Saddler Sparrow Station Thistle Tower Walnut Weaver Willow"
)

STREET_KINDS = ["Street", "Lane", "Road", "Square", "Way", "Court", "Quay", "Hill"]

TOWNS = _listed(
    "Aldermere Brightwater Calder Dunmore Eastvale Fallowfield Glenhaven Hartwick Inverleigh Kestrel "
    "Longmarsh Millbrook Northcote Oakhurst Pinecrest Ravensby Silverton Thornbury Underhill Westport"
)

NATIONS = (
    ("Egypt", "Africa", "20"),
    ("Ghana", "Africa", "233"),
    ("Kenya", "Africa", "254"),
    ("Morocco", "Africa", "212"),
    ("Nigeria", "Africa", "234"),
    ("South Africa", "Africa", "27"),
    ("Argentina", "Americas", "54"),
    ("Brazil", "Americas", "55"),
    ("Canada", "Americas", "1"),
    ("Chile", "Americas", "56"),
    ("Mexico", "Americas", "52"),
    ("Peru", "Americas", "51"),
    ("India", "Asia", "91"),
    ("Indonesia", "Asia", "62"),
    ("Japan", "Asia", "81"),
    ("South Korea", "Asia", "82"),
    ("Vietnam", "Asia", "84"),
    ("France", "Europe", "33"),
    ("Germany", "Europe", "49"),
    ("Italy", "Europe", "39"),
    ("Netherlands", "Europe", "31"),
    ("Norway", "Europe", "47"),
    ("Poland", "Europe", "48"),
    ("Spain", "Europe", "34"),
    ("Australia", "Oceania", "61"),
    ("New Zealand", "Oceania", "64"),
    ("Jordan", "Middle East", "962"),
    ("Oman", "Middle East", "968"),
    ("Türkiye", "Middle East", "90"),
)

SEGMENTS = ["construction", "education", "healthcare", "hospitality", "household", "logistics", "retail"]

LOOKS = _listed(
    "bright brushed classic compact curved deep dotted fine flat glossy heavy light long matt narrow "
    "plain polished ribbed round short slim soft sturdy tall tiny warm wide woven"
)

MATERIALS = _listed(
    "aluminium ash bamboo brass canvas ceramic copper cork cotton felt glass iron jute leather linen "
    "marble nickel oak paper pine rubber silk slate steel stone tin walnut wool zinc"
)

THINGS = {
    "garden": ["hose", "lantern", "planter", "rake", "shears", "trellis"],
    "kitchen": ["bowl", "grater", "kettle", "ladle", "pan", "whisk"],
    "office": ["binder", "clock", "desk", "lamp", "shelf", "stapler"],
    "sport": ["dumbbell", "helmet", "mat", "net", "paddle", "whistle"],
    "storage": ["basket", "box", "chest", "crate", "hook", "jar"],
    "textile": ["blanket", "curtain", "cushion", "napkin", "rug", "towel"],
    "workshop": ["bolt", "chisel", "clamp", "hammer", "plane", "vice"],
}

BRANDS = _listed(
    "Arvid Bellweather Corvina Dunlin Eskdale Fennimore Gantry Holloway Isbrand Juno Kittiwake Larkspur "
    "Merrow Nordholm Ostrava Pellworm Quill Rookery Stellan Tamarind Umbra Vantage Wexcombe Yarrow "
    "Zephyrine"
)

CONTAINER_SIZES = ["small", "medium", "large", "jumbo", "wrapped"]
CONTAINER_KINDS = ["bag", "box", "can", "case", "crate", "drum", "jar", "pack"]
