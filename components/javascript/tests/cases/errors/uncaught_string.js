// stderr: yes
throw 'just a string';
