"""Who works: workers on the folder, processes, engines, and the maps that they share."""
