// stderr: yes
try { JSON.parse('{'); } catch (e) { throw new Error('could not read the settings', { cause: new Error('root cause') }); }
