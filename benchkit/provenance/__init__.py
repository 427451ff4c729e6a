"""Where a number comes from: identities, protocol fingerprints, and the record that holds them."""
