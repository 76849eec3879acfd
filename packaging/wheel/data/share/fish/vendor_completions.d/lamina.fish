complete --keep-order --exclusive --command lamina --arguments "(LAMINA_COMPLETE=fish lamina -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
