"""Running the settings: sweeps, carried rates, energies, and the tables of what came of them."""
