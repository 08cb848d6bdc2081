"""The command line: thin verbs, in folders by their purpose. Only here is anything printed."""
