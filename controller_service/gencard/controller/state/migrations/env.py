"""How alembic runs the migrations: inside the transaction that Database.migrate began."""

from alembic import context

from gencard.controller.state.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
