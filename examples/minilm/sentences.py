"""What the demo encodes: the first two passages share a subject, the others do not."""

SENTENCES = [
    "The tide comes in twice a day because the Moon pulls on the oceans and the Earth turns beneath "
    "the bulge that this makes.",
    "Twice every day the sea rises along the coast; the gravity of the Moon raises the water and the "
    "rotation of the planet carries the shore through it.",
    "Knead the dough until it is smooth, let it rise under a cloth for an hour, then bake it in a hot "
    "oven until the crust sounds hollow.",
    "A compiler reads the source of a program, checks it, and writes instructions that a processor "
    "can execute.",
]
