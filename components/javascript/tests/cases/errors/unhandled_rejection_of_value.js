Promise.reject({ reason: 'an object' });
