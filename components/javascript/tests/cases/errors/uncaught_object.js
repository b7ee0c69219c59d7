// stderr: yes
throw { code: 5, nested: { a: [1, 2] } };
