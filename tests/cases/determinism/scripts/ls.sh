ls -la --time-style=full-iso /workspace 2>&1 || ls -la /workspace; ls -R /workspace; ls -t /workspace/many; ls -1S /workspace; ls -i /workspace/many; ls /
